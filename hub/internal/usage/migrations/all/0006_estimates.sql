-- Tokens that a runtime has estimated, or that stand for those of a run without a report, which a later report of the run
-- replaces. The sums have the number of estimated rows of usage_runs.
ALTER TABLE usage_runs ADD COLUMN estimates ${integer} NOT NULL DEFAULT 0;
ALTER TABLE usage_runs ADD COLUMN unreported BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE usage_days ADD COLUMN estimates ${integer} NOT NULL DEFAULT 0;
ALTER TABLE usage_weeks ADD COLUMN estimates ${integer} NOT NULL DEFAULT 0;
