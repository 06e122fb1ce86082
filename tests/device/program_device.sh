# The program on a device: listed with what it promises, the checks and the recorded cases pass on it, a name that is
# none is refused. Skipped, with the reason, where the program finds no device that it can use.
. "$(dirname "$0")/../cli/expect.sh"

run 0 devices
says "host: kernels"
says "promises: fused multiply-add yes"
refuses 2 "one argument too many" devices opencl
export OCL_ICD_VENDORS=/nonexistent # libOpenCL, where there is one, finds nothing
run 0 devices
says "no other: "
unset OCL_ICD_VENDORS
refuses 1 "a device is host, opencl or opencl:N" verify --device cuda
run 0 devices
if ! grep "^opencl:" "$folder/out" >/dev/null; then
    grep "^no other:" "$folder/out" || fail "no device, and no reason"
    finish
    exit 77
fi

refuses 1 "there is no such device" verify --device opencl:9999
run 0 verify --quick --device opencl
says " 0 differences; opencl:"
run 0 verify --golden "$golden" --device opencl
says " 0 differences"
if "$QSA" help run >/dev/null 2>&1; then
    refuses 1 "a device is host, opencl or opencl:N" run --device cuda -p x
fi

finish
