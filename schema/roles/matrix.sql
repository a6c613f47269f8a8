-- The privilege matrix: one line for every privilege on the schema that a role other than
-- its owner holds, directly or through PUBLIC, and for every membership. Sorted bytewise.
-- Role: any. Plan: scans of the catalogs, small.
SELECT line FROM (
    SELECT format('%s schema %s', r.name, a.privilege_type) AS line
    FROM pg_catalog.pg_namespace n
    CROSS JOIN LATERAL pg_catalog.aclexplode(n.nspacl) a
    CROSS JOIN LATERAL (SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_catalog.pg_get_userbyid(a.grantee)::text END AS name) r
    WHERE n.nspname = 'aip' AND a.grantee <> n.nspowner
    UNION ALL
    SELECT format('%s %s %s %s', r.name, CASE c.relkind WHEN 'S' THEN 'sequence' WHEN 'v' THEN 'view' ELSE 'table' END,
                  c.relname, string_agg(a.privilege_type, ' ' ORDER BY a.privilege_type COLLATE "C"))
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    CROSS JOIN LATERAL pg_catalog.aclexplode(c.relacl) a
    CROSS JOIN LATERAL (SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_catalog.pg_get_userbyid(a.grantee)::text END AS name) r
    WHERE n.nspname = 'aip' AND a.grantee <> c.relowner
    GROUP BY r.name, c.relkind, c.relname
    UNION ALL
    SELECT format('%s columns %s %s (%s)', r.name, c.relname, a.privilege_type,
                  string_agg(t.attname::text, ', ' ORDER BY t.attname::text COLLATE "C"))
    FROM pg_catalog.pg_attribute t
    JOIN pg_catalog.pg_class c ON c.oid = t.attrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    CROSS JOIN LATERAL pg_catalog.aclexplode(t.attacl) a
    CROSS JOIN LATERAL (SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_catalog.pg_get_userbyid(a.grantee)::text END AS name) r
    WHERE n.nspname = 'aip' AND NOT t.attisdropped AND a.grantee <> c.relowner
    GROUP BY r.name, c.relname, a.privilege_type
    UNION ALL
    SELECT format('%s function %s %s', r.name, p.proname, a.privilege_type)
    FROM pg_catalog.pg_proc p
    JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
    CROSS JOIN LATERAL pg_catalog.aclexplode(COALESCE(p.proacl, pg_catalog.acldefault('f', p.proowner))) a
    CROSS JOIN LATERAL (SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_catalog.pg_get_userbyid(a.grantee)::text END AS name) r
    WHERE n.nspname = 'aip' AND a.grantee <> p.proowner
    UNION ALL
    SELECT format('%s member of %s', m.rolname, g.rolname)
    FROM pg_catalog.pg_auth_members x
    JOIN pg_catalog.pg_roles m ON m.oid = x.member
    JOIN pg_catalog.pg_roles g ON g.oid = x.roleid
    WHERE m.rolname LIKE 'aip\_%'
) lines
ORDER BY line COLLATE "C"
