# needs: sqlite3 python3
# packages: sqlite3
cat > gen.py <<'PY'
import random
random.seed(3)
with open('products.csv','w') as f:
    for i in range(1,601):
        n=f'part {i}'
        if i%9==0: n+=', blue'
        row=[f'P{i:04d}',n,f'{random.random()*90:.2f}',str(random.randint(0,50))]
        # eleven rows of the export were not quoted
        f.write(','.join('"%s"'%x if ',' in x and i%54 else x for x in row)+'\n')
with open('orders.sql','w') as f:
    for i in range(1,901):
        if i==471: f.write("INSERT INTO orders VALUES(471,'P0471',2,'Kunde O'Neill');\n"); continue
        p=f'P{random.randint(1,53):04d}' if i!=214 else 'P9999'
        f.write(f"INSERT INTO orders VALUES({i},'{p}',{random.randint(1,9)},'Kunde {i}');\nSELECT 'order {i} stored, stock left ' || stock FROM products WHERE sku='{p}';\n")
PY
python3 gen.py
cat > job.sql <<'SQL'
PRAGMA foreign_keys=ON;
.bail off
.echo off
.mode list
SELECT '-- 1 schema';
CREATE TABLE products(sku TEXT PRIMARY KEY, name TEXT NOT NULL, price REAL, stock INT);
CREATE TABLE orders(id INTEGER PRIMARY KEY, sku TEXT REFERENCES products(sku), qty INT CHECK(qty>0), customer TEXT);
CREATE TABLE IF NOT EXISTS errors(id INTEGER PRIMARY KEY, message TEXT);
SELECT '-- 2 import products.csv';
.mode csv
.import products.csv products
.mode list
SELECT count(*) || ' products' FROM products;
SELECT '-- 3 orders';
.read orders.sql
SELECT '-- 4 report';
.mode box
SELECT sku, count(*) orders, sum(qty) pieces FROM orders GROUP BY sku ORDER BY pieces DESC LIMIT 40;
PRAGMA integrity_check;
PRAGMA foreign_key_check;
SELECT count(*) AS errors FROM errors;
SQL
echo ==OUTPUT==
sqlite3 shop.db < job.sql 2>&1
