# needs: postgres initdb psql pgbench (15) setpriv
# packages: postgresql-15 postgresql-client-15 postgresql-contrib-15
here=$PWD; B=/usr/lib/postgresql/15/bin
as() { setpriv --reuid=postgres --regid=postgres --clear-groups -- "$@"; }
mkdir -p run; chown postgres:postgres run; chmod 755 "$here"
export PGHOST=$here/run PGUSER=app PGDATABASE=shop
q() { as psql -X -q "$@" >/dev/null 2>&1; }
{
as $B/initdb -D run/data -U app -A trust --no-sync -E UTF8
as $B/pg_ctl -D run/data -w -l run/log -o "-k $here/run -c listen_addresses='' -c fsync=off -c log_line_prefix='%m [%p] %q%u@%d/%a ' -c log_connections=on -c log_disconnections=on -c log_checkpoints=on -c log_min_duration_statement=15ms -c log_lock_waits=on -c deadlock_timeout=300ms -c max_connections=24 -c superuser_reserved_connections=0 -c log_autovacuum_min_duration=0 -c autovacuum_naptime=3s -c temp_file_limit=1MB -c work_mem=64kB -c log_temp_files=0" start
trap 'as $B/pg_ctl -D $here/run/data -m immediate stop >/dev/null 2>&1' EXIT
PGDATABASE=postgres q -c 'create database shop'
q -c "create table accounts(id int primary key, balance int check (balance >= 0))" -c "insert into accounts select i, 1000 from generate_series(1,200) i" \
  -c "create table events(id bigserial primary key, key text unique, body text)" -c "create table error_log(id serial, message text)"
one() { PGAPPNAME=$1 q -c "$2"; }
for i in $(seq 1 14); do one orders-api "insert into events(key,body) select 'k$i-'||g, repeat('x',60) from generate_series(1,1500) g"; one orders-api "select pg_sleep(0.02)"; done
for i in 3 9; do one orders-api "insert into events(key,body) values ('k$i-7','retry of request $i')"; done          # handled by the application: duplicate of a retry
for i in $(seq 1 6); do one reports "insert into error_log(message) values ('ERROR: printer offline')"; done
( PGAPPNAME=transfer-1 q -c "begin; update accounts set balance=balance-10 where id=17; select pg_sleep(0.5); update accounts set balance=balance+10 where id=42; commit" ) &
( sleep 0.1; PGAPPNAME=transfer-2 q -c "begin; update accounts set balance=balance-10 where id=42; select pg_sleep(0.5); update accounts set balance=balance+10 where id=17; commit" ) &
wait %1 %2 2>/dev/null; wait
for i in $(seq 1 6); do one orders-api "insert into events(key,body) select 'm$i-'||g, repeat('y',60) from generate_series(1,1500) g"; done
one reports "select e.key, f.body from events e join events f on f.body=e.body order by f.key desc, e.key limit 10"
q -c checkpoint
one transfer-3 "update accounts set balance=balance-5000 where id=3"
one migrate "alter table accounts add column currency text not null"
# a worker that leaks connections: slots run out
for i in $(seq 1 24); do ( PGAPPNAME=importer q -c "select pg_sleep(4)" ) & done
sleep 1.5
for i in $(seq 1 28); do one orders-api "select 1"; done
wait
for i in $(seq 1 7); do one orders-api "insert into events(key,body) select 'z$i-'||g, repeat('z',60) from generate_series(1,800) g"; done
as $B/pg_ctl -D run/data -m fast stop; trap - EXIT
} >prep.log 2>&1
echo ==OUTPUT==
cat run/log
