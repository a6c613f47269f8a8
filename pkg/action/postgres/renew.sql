-- Renews the lease of one owner by the database's clock.
-- Locks: one row of aip.action_owner. Role: aip_data. Plan: primary-key upsert.
INSERT INTO aip.action_owner (owner, lease_until) VALUES ($1, aip.clock() + $2 * interval '1 microsecond')
ON CONFLICT (owner) DO UPDATE SET lease_until = excluded.lease_until
