# needs: postgres initdb psql (15) setpriv
# packages: postgresql-15 postgresql-client-15
here=$PWD; B=/usr/lib/postgresql/15/bin
as() { setpriv --reuid=postgres --regid=postgres --clear-groups -- "$@"; }
mkdir -p run; chown postgres:postgres run; chmod 755 "$here"
{
as $B/initdb -D run/data -U app -A trust --no-sync -E UTF8
as $B/pg_ctl -D run/data -w -l run/log -o "-k $here/run -c listen_addresses='' -c fsync=off -c jit=off" start
trap 'as $B/pg_ctl -D $here/run/data -m immediate stop >/dev/null 2>&1' EXIT
as psql -X -q -h "$here/run" -U app -d postgres <<'SQL'
create table customers(id int primary key, name text, country text);
create table orders(id int primary key, customer_id int, status text, error text, created date, total numeric);
create table items(order_id int, sku text, qty int, price numeric);
insert into customers select i, 'customer '||i, (array['DE','FR','PL','IT','ES'])[i%5+1] from generate_series(1,3000) i;
insert into orders select i, i*7%3000+1, (array['new','paid','failed','sent'])[i%4+1], case when i%4=2 then 'card declined' end, date '2025-01-01'+i%300, i%970 from generate_series(1,40000) i;
insert into items select i%40000+1, 'S'||i%900, i%5+1, i%97+0.5 from generate_series(1,120000) i;
create index on orders(customer_id); create index on orders(status) where status='failed';
analyze;
SQL
cat > q.sql <<'SQL'
\timing on
\echo -- 1. revenue by country and month
EXPLAIN (ANALYZE, BUFFERS, VERBOSE)
WITH paid AS (SELECT o.id, o.customer_id, date_trunc('month',o.created) AS m FROM orders o WHERE o.status IN ('paid','sent'))
SELECT c.country, p.m, count(DISTINCT p.id), sum(i.qty*i.price) AS revenue, rank() OVER (PARTITION BY p.m ORDER BY sum(i.qty*i.price) DESC)
FROM paid p JOIN customers c ON c.id=p.customer_id JOIN items i ON i.order_id=p.id GROUP BY 1,2 ORDER BY 2,5;
\echo -- 2. failed orders, with their last error
EXPLAIN (ANALYZE, BUFFERS, VERBOSE)
SELECT c.name, o.error, (SELECT max(price) FROM items i WHERE i.order_id=o.id) FROM orders o JOIN customers c ON c.id=o.customer_id
WHERE o.status='failed' AND o.created>'2025-10-20' AND EXISTS (SELECT 1 FROM orders p WHERE p.customer_id=o.customer_id AND p.status='paid') LIMIT 5;
\echo -- 3. customers without orders
EXPLAIN (ANALYZE, BUFFERS) SELECT c.* FROM customers c LEFT JOIN orders o ON o.customer_id=c.id WHERE o.id IS NULL;
\echo -- 4. the same report as JSON
EXPLAIN (ANALYZE, FORMAT JSON) SELECT c.country, count(*) FROM orders o JOIN customers c ON c.id=o.customer_id WHERE o.status='failed' GROUP BY 1;
\echo -- 5. result
SELECT c.country, o.status, count(*), sum(total) FROM orders o JOIN customers c ON c.id=o.customer_id GROUP BY 1,2 ORDER BY 1,2;
\d+ orders
SQL
} >prep.log 2>&1
echo ==OUTPUT==
as psql -X -h "$here/run" -U app -d postgres -f q.sql 2>&1
