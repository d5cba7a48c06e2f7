"""Pictures of results, as SVG, drawn from the JSON alone.

Written by hand rather than by a plotting library: a few bars, dots and lines need five shapes and
two scales, and a library would bring numbers of megabytes, other fonts on every machine and paths
instead of text. Every picture has a white card behind it, so that it reads the same on a light page
and on a dark one.
"""
