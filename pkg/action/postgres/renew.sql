-- Renews the lease of one owner by the database's clock, and forgets owners that have
-- been dead for a day: having no row and having an old one mean the same.
-- Locks: rows of aip.action_owner, its own and dead ones. Role: aip_data.
-- Plan: primary-key upsert; a scan of a table with one row per process.
WITH forgotten AS (
    DELETE FROM aip.action_owner WHERE owner <> $1 AND lease_until < aip.clock() - interval '1 day'
)
INSERT INTO aip.action_owner (owner, lease_until) VALUES ($1, aip.clock() + $2 * interval '1 microsecond')
ON CONFLICT (owner) DO UPDATE SET lease_until = excluded.lease_until
