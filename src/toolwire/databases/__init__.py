"""The databases of other rooms: how SQLite and PostgreSQL are opened, and how the files of SQLite are watched."""
