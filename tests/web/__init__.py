"""The page for people, `ctxfs web`, in a real browser."""
