# needs: dpkg-deb dpkg
# packages: dpkg
here=$PWD; mkdir -p build debs root/var/lib/dpkg/{info,updates,triggers} root/etc root/usr/bin root/var/log; : > root/var/lib/dpkg/status; : > root/var/lib/dpkg/available
for i in $(seq -w 1 36); do
  n=shop-module-$i; [ $i = 09 ] && n=shop-errors-09
  d=build/$n; mkdir -p $d/DEBIAN $d/usr/share/$n; echo "module $i" > $d/usr/share/$n/data; dep=""
  [ $i = 30 ] && dep="Depends: shop-module-17"; [ $i = 33 ] && dep="Depends: shop-module-99 (>= 2)"
  printf 'Package: %s\nVersion: 1.%s\nArchitecture: all\nMaintainer: Shop <ops@example.com>\nDescription: module %s\n%s' $n $i $i "${dep:+$dep
}" > $d/DEBIAN/control
  printf '#!/bin/sh\nset -e\necho "%s: creating configuration"\necho "%s: warning: no previous configuration found (not an error)"\n' $n $n > $d/DEBIAN/postinst
  [ $i = 17 ] && printf 'echo "shop-module-17: migrating schema 41 -> 42"\necho "ERROR: relation \\"invoices\\" has 3 rows with total < 0, refusing to add constraint" >&2\nexit 7\n' >> $d/DEBIAN/postinst
  [ $i = 24 ] && { mkdir -p $d/usr/share/shop-module-11; echo other > $d/usr/share/shop-module-11/data; }
  printf 'for f in a b c; do echo "%s: registered handler $f, errors: 0"; done\n' $n >> $d/DEBIAN/postinst
  chmod 755 $d/DEBIAN/postinst; dpkg-deb --root-owner-group -Znone -b $d debs/${n}_1.${i}_all.deb >/dev/null 2>&1
done
echo ==OUTPUT==
dpkg --admindir=$here/root/var/lib/dpkg --instdir=$here/root --force-script-chrootless --log=/dev/null -i debs/*.deb 2>&1
