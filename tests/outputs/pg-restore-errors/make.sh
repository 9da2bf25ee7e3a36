# needs: postgres initdb psql pg_dump pg_restore (15) setpriv
# packages: postgresql-15 postgresql-client-15
here=$PWD; B=/usr/lib/postgresql/15/bin
as() { setpriv --reuid=postgres --regid=postgres --clear-groups -- "$@"; }
mkdir -p run; chown postgres:postgres run; chmod 755 "$here"
P="-h $here/run -U app"
{
as $B/initdb -D run/data -U app -A trust --no-sync -E UTF8
as $B/pg_ctl -D run/data -w -l run/log -o "-k $here/run -c listen_addresses='' -c fsync=off" start
trap 'as $B/pg_ctl -D $here/run/data -m immediate stop >/dev/null 2>&1' EXIT
as psql $P -d postgres -c 'create database shop' -c 'create role billing_owner' -c 'create role reporting'
python3 - <<'PY'
t=['customers','addresses','products','categories','suppliers','warehouses','stock_levels','carts','cart_items','orders','order_items','payments','refunds','shipments','parcels','coupons','reviews','error_codes','failed_jobs','mail_queue','invoices','invoice_lines']
s=["CREATE FUNCTION is_email(text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$ SELECT $1 LIKE '%@%' $$;"]
for i,x in enumerate(t):
    s.append(f"CREATE TABLE {x}(id bigserial primary key, ref text not null unique, status text default 'new', note text, parent bigint, created_at timestamptz default '2025-11-01');")
    s.append(f"COMMENT ON TABLE {x} IS 'table {x}';CREATE INDEX {x}_status ON {x}(status);")
    s.append(f"INSERT INTO {x}(ref,note,parent) SELECT '{x}-'||i, 'row '||i, i FROM generate_series(1,200) i;")
    s.append(f"GRANT SELECT ON {x} TO reporting;")
    if i: s.append(f"ALTER TABLE {x} ADD CONSTRAINT {x}_parent_fk FOREIGN KEY(parent) REFERENCES {t[i-1]}(id);")
s.append("ALTER TABLE customers ADD CONSTRAINT customers_note_ck CHECK (note <> '');")
s.append("CREATE VIEW open_orders AS SELECT o.id,o.ref,c.ref AS customer FROM orders o JOIN customers c ON c.id=o.parent;")
s.append("ALTER TABLE invoices OWNER TO billing_owner;ALTER TABLE invoice_lines OWNER TO billing_owner;")
open('schema.sql','w').write('\n'.join(s))
PY
as psql $P -d shop -q -f schema.sql
as pg_dump $P -d shop -Fc -f run/shop.dump
as psql $P -d postgres -c 'create database shop_copy'
# the target: an older row set in order_items, and the role billing_owner is gone
as psql $P -d shop_copy -q -c "CREATE TABLE shipments(id bigint primary key, carrier text)" -c "INSERT INTO shipments VALUES (1,'dhl')"
as psql $P -d postgres -c 'drop database shop' -c 'drop role billing_owner'
} >prep.log 2>&1
echo ==OUTPUT==
as pg_restore $P -d shop_copy --verbose run/shop.dump 2>&1
