#!/bin/sh
# Installs what a platform's users install into empty directories, and takes a lock: `release_try.sh PACKAGES PLATFORM`.
set -eu
packages=$(cd "$1" && pwd)
platform=$2
here=$(mktemp -d)
cd "$here"

python3 -m venv venv
venv/bin/pip install --quiet --no-index "$packages"/*.whl
echo '{ "private": true }' > package.json
npm install --offline --silent --no-audit --no-fund "$packages"/zklock-[0-9]*.tgz "$packages/zklock-$platform"-*.tgz

venv/bin/zklock dev --port 2181 &
server=$!
trap 'kill "$server"' EXIT
until venv/bin/zklock ls / > /dev/null 2>&1; do sleep 0.1; done

venv/bin/python -c '
import zklock
with zklock.Client() as client, zklock.Mutex(client, "/try") as lease:
    print("Python holds, with token", lease.fencing_token)
'
node -e '
const { Client, Mutex } = require("zklock");
Client.connect().then(async (client) => {
  await new Mutex(client, "/try").using((lease) => console.log("Node holds, with token", lease.fencingToken));
  await client.close();
});
'
for command in venv/bin/zklock node_modules/.bin/zklock; do
  status=0
  "$command" run /try -- sh -c 'exit 7' || status=$?
  test "$status" = 7
done
