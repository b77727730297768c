"""The window around the panels: bars, dialogs, layouts, and a teacher's tools."""
