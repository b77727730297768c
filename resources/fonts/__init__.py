"""The bundled fonts and their licences."""
