"""`vineppo estimate`: what a config needs of memory and time, before anything is started."""
