"""The dashboard: pages for people at the HTTP port, rendered here and kept alive by events.

A page is one function from a broker and a request to a `View` (`view.py`); `pages.py` lists them
all. What a view becomes is in `rendering.py`: a page, the middle of one when a page that is open
asks for itself again, or JSON. `live.py` notifies open pages when there is something new,
`assets.py` has the files that they load, `words.py` how numbers and times are written.

No page loads anything from elsewhere, none has a script or a style within it, and whatever came
from outside is text (see `SAFE_PAGE` in `rendering.py`).
"""
