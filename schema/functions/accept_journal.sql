-- aip.accept_journal makes a journal that a host came with the known one (lease.AcceptJournal,
-- judged by the caller). It runs as the owner, so that the role that publishes identity holds no
-- grant on live columns.
-- Locks: the replica row, locked by the caller. Role: control. Plan: primary keys.
CREATE OR REPLACE FUNCTION aip.accept_journal(p_replica text, p_journal text) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    UPDATE aip.replica_live l SET journal_id = p_journal
    FROM aip.journal_offer o
    WHERE l.replica_id = p_replica AND o.replica_id = p_replica AND o.journal_id = p_journal
      AND l.status <> 'retired';
    DELETE FROM aip.journal_offer WHERE replica_id = p_replica AND journal_id = p_journal;
$$;
GRANT EXECUTE ON FUNCTION aip.accept_journal(text, text) TO aip_control;
