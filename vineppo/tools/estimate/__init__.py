"""`vineppo estimate`: memory and time that a config needs, before anything is started."""
