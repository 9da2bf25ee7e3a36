# needs: ffmpeg
# packages: ffmpeg
for i in 1 2 3 4; do ffmpeg -y -f lavfi -i testsrc2=d=12:s=320x240:r=25 -f lavfi -i sine=d=12 -c:v mpeg4 -c:a aac -metadata title="error handling part $i" in$i.mp4 >/dev/null 2>&1; done
echo ==OUTPUT==
rc=0; for i in 1 2 3 4; do ffmpeg -hide_banner -nostdin -y -stats_period 0.1 -threads 1 -i in$i.mp4 -vf hqdn3d,scale=640:480 -c:v mpeg4 -c:a aac -err_detect ignore_err -metadata comment="failed takes removed" out$i.mkv 2>&1 || rc=1; done
exit $rc
