"""``python -m bench``."""

from bench._app import app

if __name__ == "__main__":
    app()
