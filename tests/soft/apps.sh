# shellcheck shell=sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Applications of other projects, cases of run.sh, which sources this file.
# rdmamsg-soft(7), PROGRAMS, has the same commands.
# shellcheck disable=SC2154 # variables of run.sh

pair app-fio \
    "fio --name=in --ioengine=rdma --port=PORT --rw=read --bs=64k --size=64m" \
    "fio --name=out --ioengine=rdma --hostname=127.0.0.1 --port=PORT
     --verb=write --rw=write --bs=64k --size=64m" 'io=64.0MiB'

# it addresses a peer by LID
qperf="env RDMAMSG_SOFT_LINK=ib qperf -lp PORT"
endless_pair app-qperf "$qperf" \
    "$qperf 127.0.0.1 -t 1 rc_lat rc_bw rc_rdma_read_bw ud_lat
     ver_rc_compare_swap" 'msg_rate'

# the sockets of iperf are those of librspreload
rsocket=$(find /usr/lib* -name librspreload.so.1 2>/dev/null | head -n 1)
iperf="env LD_PRELOAD=$rsocket $soft iperf -p PORT"
endless_pair app-iperf "$iperf -s" "$iperf -c 127.0.0.1 -n 256M" 'bits/sec'

mpi="env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    mpirun --oversubscribe -np 2 -wdir $registry.d --mca pml ucx --mca osc ucx
    -x UCX_TLS=rc_v,self -x UCX_NET_DEVICES=soft0:1"
mkdir -p "$registry.d"
! command -v NPopenmpi >/dev/null ||
	one app-netpipe "$mpi NPopenmpi -u 65536 -o netpipe" '65536 bytes .*Mbps'
# two processes, not four, and a small problem
hpcc=/usr/share/doc/hpcc/examples/_hpccinf.txt
if command -v hpcc >/dev/null && [ -r $hpcc ]
then
	sed 's/^2  *Ps/1 Ps/; s/^1000 /500 /' $hpcc >"$registry.d/hpccinf.txt"
	echo 'hpcc && cat hpccoutf.txt' >"$registry.d/run"
	one app-hpcc "$mpi sh run" '^Success=1'
fi

# on_mpi NAME COMPILER SOURCE: builds the program and runs it in two processes
on_mpi()
{
	case_of "$1" "$2" libopenmpi-dev || return 0
	program=$registry.d/${3%.c}
	if "$2" "$(dirname "$0")/$3" -o "$program" >"$work/compiler" 2>&1
	then one "$1" "$mpi $program" '^1 has 0$'
	else fail "it does not compile"
	fi
}
on_mpi app-mpi-put mpicc mpi_put.c
on_mpi app-openshmem oshcc shmem_put.c
