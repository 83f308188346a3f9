-- No query searches a position of one actor.
DROP INDEX audit_entries_actor_mark;
