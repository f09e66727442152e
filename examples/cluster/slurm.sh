#!/bin/bash
# Grade a class on the machines of a Slurm job: sbatch examples/cluster/slurm.sh
# The checkout, its .venv and the submissions must be in a folder that all machines share.
#SBATCH --job-name=grade
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --mem=64G
#SBATCH --time=02:00:00
set -euo pipefail

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
port=$((20000 + SLURM_JOB_ID % 10000))
# The nodes of the job authenticate with this token, so nobody else can run commands on them.
export RAY_AUTH_MODE=token
RAY_AUTH_TOKEN=$(openssl rand -hex 32)
export RAY_AUTH_TOKEN
export PATH="$PWD/.venv/bin:$PATH"  # symmetric-run calls `ray` by its name

# Every machine runs the same command; the first machine then also runs the command after `--`.
srun ray symmetric-run \
    --address "$head:$port" --min-nodes "$SLURM_JOB_NUM_NODES" \
    --num-cpus "$SLURM_CPUS_PER_TASK" --disable-usage-stats \
    -- \
    grader batch submissions/ --gradebook class.sqlite \
    --executor ray --address "$head:$port"
