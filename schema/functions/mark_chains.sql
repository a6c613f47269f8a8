-- aip.mark_chains says anew, of every capability of a tenant that some instances are bound to, which
-- chains are foremost (weighted, and none has a better priority) and whether one leads to a crowd of
-- replicas (wide, see aip.replica_mirror).
-- Locks: none beyond the rows written.
-- Role: control, inside a publication, as are new replicas: nobody else changes either meanwhile.
-- Plan: short ranges of route_candidate for each such capability, by key, also when the table was
-- empty when last analyzed.
CREATE OR REPLACE FUNCTION aip.mark_chains(p_instances text[]) RETURNS void
LANGUAGE sql VOLATILE SET enable_seqscan = off AS $$
    UPDATE aip.route_candidate c SET foremost = NOT c.foremost
    WHERE c.ctid = ANY (ARRAY(
        SELECT o.place
        FROM (SELECT DISTINCT b.tenant_id, b.capability_id
              FROM unnest(p_instances) AS u (id)
              CROSS JOIN LATERAL (SELECT w.tenant_id, w.capability_id FROM aip.binding w WHERE w.instance_id = u.id OFFSET 0) b) a
        CROSS JOIN LATERAL (SELECT min(w.priority) AS first FROM aip.route_candidate w
                            WHERE w.tenant_id = a.tenant_id AND w.capability_id = a.capability_id AND w.weight > 0 OFFSET 0) p
        CROSS JOIN LATERAL (SELECT w.ctid AS place FROM aip.route_candidate w
                            WHERE w.tenant_id = a.tenant_id AND w.capability_id = a.capability_id
                              AND w.foremost <> COALESCE(w.weight > 0 AND w.priority = p.first, false) OFFSET 0) o));
    UPDATE aip.route_candidate c SET wide = NOT c.wide
    WHERE c.ctid = ANY (ARRAY(
        SELECT o.place
        FROM (SELECT DISTINCT b.tenant_id, b.capability_id
              FROM unnest(p_instances) AS u (id)
              CROSS JOIN LATERAL (SELECT w.tenant_id, w.capability_id FROM aip.binding w WHERE w.instance_id = u.id OFFSET 0) b) a
        CROSS JOIN LATERAL (SELECT EXISTS (
                                SELECT FROM aip.route_candidate w JOIN aip.replica_group g ON g.instance_id = w.instance_id AND g.version_id = w.version_id
                                WHERE w.tenant_id = a.tenant_id AND w.capability_id = a.capability_id) AS crowded OFFSET 0) p
        CROSS JOIN LATERAL (SELECT w.ctid AS place FROM aip.route_candidate w
                            WHERE w.tenant_id = a.tenant_id AND w.capability_id = a.capability_id AND w.wide <> p.crowded OFFSET 0) o))
$$;
GRANT EXECUTE ON FUNCTION aip.mark_chains(text[]) TO aip_control;
