"""A server on this machine that answers as the Hugging Face Hub does, for as much as downloading a model needs."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "c0ffee" * 6 + "abcd"
FILE = re.compile(r"/([\w.-]+/[\w.-]+)/resolve/([^/]+)/(.+)")


@dataclass
class Hub:
    """Its repositories and what it was asked.

    Attributes
    ----------
    repositories
        Name → file → bytes.
    errors
        Name → status and error code, instead of an answer.
    asked
        Method, path and range of every request.
    break_at
        File → bytes after which its connection is dropped, once.
    hold_at
        File → bytes after which nothing comes until ``released`` is set; ``holding`` says that this point is reached.
    sums
        File → SHA-256 that is said of it, as of one in large-file storage.
    """

    url: str = ""
    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    errors: dict[str, tuple[int, str]] = field(default_factory=dict)
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    break_at: dict[str, int] = field(default_factory=dict)
    hold_at: dict[str, int] = field(default_factory=dict)
    sums: dict[str, str] = field(default_factory=dict)
    holding: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def fetched(self) -> list[str]:
        """The files that were asked for, in order."""
        return [path.rsplit("/", 1)[1] for method, path, _ in self.asked if method == "GET" and "/resolve/" in path]


@contextmanager
def serving() -> Iterator[Hub]:
    """Run a hub until the block ends."""
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *arguments: Any) -> None:
            """Say nothing."""

        def do_HEAD(self) -> None:
            self.answer(with_body=False)

        def do_GET(self) -> None:
            self.answer(with_body=True)

        def answer(self, with_body: bool) -> None:
            path = self.path.split("?")[0]
            hub.asked.append((self.command, path, self.headers.get("Range", "")))
            found = FILE.fullmatch(path)
            name = found[1] if found else path.removeprefix("/api/models/").split("/revision/")[0]
            if name in hub.errors:
                self.refuse(*hub.errors[name])
            elif name not in hub.repositories:
                self.refuse(404, "RepoNotFound")
            elif found is None:
                self.describe(name)
            else:
                self.send_file(found[3], hub.repositories[name][found[3]], with_body)

        def refuse(self, status: int, code: str) -> None:
            self.send_response(status)
            self.send_header("X-Error-Code", code)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def describe(self, name: str) -> None:
            files = hub.repositories[name]
            siblings: list[dict[str, Any]] = [
                {"rfilename": file, "size": len(data), "blobId": "0" * 40} for file, data in files.items()
            ]
            for one in siblings:
                if one["rfilename"] in hub.sums:
                    one["lfs"] = {"sha256": hub.sums[one["rfilename"]], "size": one["size"], "pointerSize": 134}
            body = json.dumps({"id": name, "sha": COMMIT, "siblings": siblings, "tags": [], "private": False}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def send_file(self, file: str, data: bytes, with_body: bool) -> None:
            asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            start = int(asked[1]) if asked else 0
            self.send_response(206 if asked else 200)
            if asked:
                self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
            self.send_header("ETag", f'"{hashlib.sha1(data).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Content-Length", str(len(data) - start))
            self.end_headers()
            if with_body:
                self.send_body(file, data, start)

        def send_body(self, file: str, data: bytes, start: int) -> None:
            for at in range(start, len(data), 1 << 16):
                if at >= hub.break_at.get(file, len(data)):
                    del hub.break_at[file]
                    self.close_connection = True
                    return
                if at >= hub.hold_at.get(file, len(data)):
                    self.wfile.flush()
                    hub.holding.set()
                    hub.released.wait(20)
                try:
                    self.wfile.write(data[at : at + (1 << 16)])
                except OSError:  # the other side has gone
                    self.close_connection = True
                    return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        hub.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
