# needs: postgres initdb psql (15) setpriv
# packages: postgresql-15 postgresql-client-15
here=$PWD; B=/usr/lib/postgresql/15/bin
as() { setpriv --reuid=postgres --regid=postgres --clear-groups -- "$@"; }
mkdir -p run migrations; chown postgres:postgres run; chmod 755 "$here"
{
as $B/initdb -D run/data -U app -A trust --no-sync -E UTF8
as $B/pg_ctl -D run/data -w -l run/log -o "-k $here/run -c listen_addresses='' -c fsync=off" start
trap 'as $B/pg_ctl -D $here/run/data -m immediate stop >/dev/null 2>&1' EXIT
as psql -h "$here/run" -U app -d postgres -c 'create database shop'
python3 - <<'PY'
import random
random.seed(4)
tables=['customers','addresses','products','categories','suppliers','warehouses','stock_levels','carts','cart_items','orders','order_items','payments','refunds','shipments','parcels','coupons','reviews','audit_log','sessions','mail_queue']
n=0
def w(name,sql):
    global n; n+=1
    open(f'migrations/{n:04d}_{name}.sql','w').write(f"\\echo == applying {n:04d}_{name}\nBEGIN;\n{sql}\nINSERT INTO schema_migrations(version,name) VALUES ({n},'{name}');\nCOMMIT;\n")
w('schema_migrations','CREATE TABLE IF NOT EXISTS schema_migrations(version int primary key, name text not null, applied_at timestamptz default now());')
for t in tables:
    w(f'create_{t}',f'''CREATE TABLE {t}(id bigserial primary key, ref text not null, status text not null default 'new', error_message text, amount numeric(12,2) not null default 0, created_at timestamptz not null default now());
CREATE INDEX {t}_created_idx ON {t}(created_at);
CREATE INDEX IF NOT EXISTS {t}_created_idx ON {t}(created_at);
INSERT INTO {t}(ref,amount) SELECT '{t}-'||i, i*1.5 FROM generate_series(1,{random.randint(20,400)}) i;
DROP TRIGGER IF EXISTS {t}_touch ON {t};
ANALYZE {t};''')
w('orders_customer',"""ALTER TABLE orders ADD COLUMN customer_id bigint;
UPDATE orders SET customer_id = (id*7)%450+1;
CREATE INDEX orders_customer_idx ON orders(customer_id);""")
w('orders_customer_fk',"""DELETE FROM carts WHERE status = 'error';
ALTER TABLE orders ADD CONSTRAINT orders_customer_fk FOREIGN KEY (customer_id) REFERENCES customers(id);
ALTER TABLE orders ALTER COLUMN customer_id SET NOT NULL;
CREATE VIEW customer_totals AS SELECT c.id AS customer_id, c.ref, sum(o.amount) AS total FROM customers c JOIN orders o ON o.customer_id=c.id GROUP BY 1,2;
ANALYZE orders;""")
w('totals_materialized',"""CREATE MATERIALIZED VIEW mv_totals AS SELECT * FROM customer_totals WITH NO DATA;
CREATE UNIQUE INDEX mv_totals_customer ON mv_totals(customer_id);
REFRESH MATERIALIZED VIEW mv_totals;""")
w('report_role',"""DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname='reporting') THEN CREATE ROLE reporting; ELSE RAISE NOTICE 'role "reporting" already exists, skipping'; END IF; END $$;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO reporting;
GRANT SELECT ON customer_totals TO reporting;""")
for t in tables:
    w(f'{t}_updated_at',f'''ALTER TABLE {t} ADD COLUMN IF NOT EXISTS updated_at timestamptz;
ALTER TABLE {t} ADD COLUMN IF NOT EXISTS created_at timestamptz;
UPDATE {t} SET updated_at = created_at;
DROP INDEX IF EXISTS {t}_updated_idx;
CREATE INDEX {t}_updated_idx ON {t}(updated_at);
ALTER TABLE {t} ALTER COLUMN updated_at SET NOT NULL;''')
PY
printf '\\i %s\n' migrations/*.sql > all.sql
cat >> all.sql <<'SQL'
\echo == vacuum
VACUUM (ANALYZE, VERBOSE) orders;
\echo == state
SELECT version, name FROM schema_migrations ORDER BY version DESC LIMIT 8;
SELECT relname, n_live_tup FROM pg_stat_user_tables ORDER BY relname;
SQL
} >prep.log 2>&1
echo ==OUTPUT==
as psql -X -h "$here/run" -U app -d shop -f all.sql 2>&1
