"""Reports: a trace in, a text, a table or a file out. No report knows how a trace was recorded."""
