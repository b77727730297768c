"""What the person is doing: selection, session, jobs, settings, commands. QtCore only; never widgets, never views."""
