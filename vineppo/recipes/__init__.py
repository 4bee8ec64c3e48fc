"""Plug-ins beyond the core, a file each, by the interfaces that a user's own file has."""
