"""The checks of the pages: a file for each page or way to look."""
