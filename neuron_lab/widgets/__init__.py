"""Live views: each is a few synced traits in Python and one JavaScript module that draws them."""
