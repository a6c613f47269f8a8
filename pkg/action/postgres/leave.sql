-- Ends the lease of one owner.
-- Locks: one row of aip.action_owner. Role: aip_data. Plan: primary-key delete.
DELETE FROM aip.action_owner WHERE owner = $1
