# The engine under test of the chaos suite: its output is the bytes of its model. It keeps the device's own log.
# Environment: CHAOS the folder of the scenario, DEVICE the device's name, WORK the bytes of its answer (model, other).
here=$(dirname -- "$0")
job=$(sed 's/.*"job":"\([^"]*\)".*/\1/' request.json)
model=$(sed 's/.*"model":{[^}]*"path":"\([^"]*\)".*/\1/' request.json)
log=$CHAOS/$DEVICE.log
# The kernel drops this lock when the program is gone, however it ends: whoever finds it taken is not alone.
# mksh keeps its descriptors to itself unless one is named for the command.
exec 9>>"$CHAOS/$DEVICE.lock"
flock -n 9 9>&9 || echo "overlap $job" >>"$log"
echo "begin $job" >>"$log"
fault=
case $job in
*victim*)
    mv "$CHAOS/runner" "$CHAOS/runner.taken" 2>/dev/null && fault=$(cat "$CHAOS/runner.taken")
    stop=${job#*-}
    stop=$CHAOS/running-${stop%-*}
    if mv "$stop" "$stop.taken" 2>/dev/null; then
        : >"$CHAOS/.reached" && mv "$CHAOS/.reached" "$CHAOS/reached"
        while [ -e "$stop.taken" ]; do sleep 0.02; done
    fi
    ;;
esac
answer() {
    mkdir out || exit 1
    if [ "$WORK" = model ]; then cp -- "$model" out/y.bin; else cp -- "$here/other.bin" out/y.bin; fi || exit 1
    digest=$(cat "$here/$WORK.digest")
    cat <<END
{"contract":1,"job":"$job","attempt":1,"runner":{"name":"chaos","version":"1","level":0},
 "effective":{"backend":"cpu","precision":"fp32","threads":1,"dispatch":"none"},
 "passes":[{"kind":"plain","iteration":0,"outputs":{"y":"$digest"},"latency_ns":1},
           {"kind":"plain","iteration":1,"outputs":{"y":"$digest"},"latency_ns":1}],
 "outputs":[{"name":"y","dtype":"float32","shape":[64],"digest":"$digest","path":"y.bin"}]}
END
}
case $fault in
hang) while :; do sleep 1; done ;;
crash) kill -SEGV $$ ;;
garbage) mkdir out && head -c 4096 "$here/padding.bin" >out/result.json ;;
truncated) answer >text && head -c 150 text >out/result.json ;;
*) answer >text && mv text out/result.json || exit 1 ;;
esac
echo "end $job" >>"$log"
