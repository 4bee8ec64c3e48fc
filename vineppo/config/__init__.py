"""Configs: jsonnet files hold every value, `schema` the types, `load` refuses what does not fit."""
