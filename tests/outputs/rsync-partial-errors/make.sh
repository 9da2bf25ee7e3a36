# needs: rsync setpriv
# packages: rsync
mkdir src; cd src
for d in catalog error-pages invoices mail thumbs; do for i in $(seq -w 1 120); do mkdir -p $d; echo "$d $i" > $d/$d-$i.dat; done; done
mkdir -p invoices/2025; echo x > invoices/2025/a.pdf; chmod 600 invoices/invoices-031.dat; chmod 700 mail; chmod 600 thumbs/thumbs-008.dat
chmod 700 invoices/2025; ln -s /nowhere catalog/failed-link; cd ..
chmod 755 . src; mkdir dst; mkdir -p dst/error-pages/error-pages-020.dat/keep; echo y > dst/error-pages/error-pages-020.dat/keep/file; echo old > dst/catalog-old.dat; chown -R nobody dst
cd /tmp/outputs/rsync-partial-errors
echo ==OUTPUT==
setpriv --reuid=65534 --regid=65534 --clear-groups rsync -rtv --stats src/ dst/ 2>&1
