-- cwd is the directory in which a stdio server starts. Empty: a private directory.
ALTER TABLE mcps ADD COLUMN cwd TEXT NOT NULL DEFAULT '';
