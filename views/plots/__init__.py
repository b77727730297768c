"""The pictures that panels are made of, on pyqtgraph."""

import os

os.environ["PYQTGRAPH_QT_LIB"] = "PySide6"  # before pyqtgraph is imported: it would look for another Qt by itself
