-- The budgets that were used up to a soft limit at the end of an answer, as JSON.
ALTER TABLE chat_messages ADD COLUMN budgets TEXT NOT NULL DEFAULT '';
