# needs: rg
# packages: libpython3.11-stdlib (PSF licence)
cd /usr/lib/python3.11
echo ==OUTPUT==
rg --sort path -n 'raise \w+(Error|Exception)\(|warnings\.warn\(|^\s+# XXX|# (TODO|Note|NOTE|Workaround|HACK)' asyncio email http urllib ssl.py socket.py subprocess.py tarfile.py zipfile.py shutil.py smtplib.py ftplib.py imaplib.py tempfile.py pathlib.py threading.py json csv.py configparser.py
