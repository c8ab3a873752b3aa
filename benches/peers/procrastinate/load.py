"""Load generator for procrastinate: adds jobs, works all of them, and prints the jobs per second.

python load.py ITEMS PAYLOAD CONCURRENCY; connects to the PostgreSQL of the PG... environment variables.
"""

import asyncio
import logging
import sys
import time

import procrastinate

items, payload, concurrency = map(int, sys.argv[1:4])
logging.disable(logging.WARNING)
connector = procrastinate.PsycopgConnector(min_size=concurrency, max_size=concurrency + 2)
app = procrastinate.App(connector=connector)
runs = bytearray(items)


@app.task(name="item", pass_context=False)
async def item(at: int, payload: str) -> None:
    runs[at] += 1


async def main() -> None:
    async with app.open_async():
        await connector.execute_query_async("DROP SCHEMA public CASCADE")
        await connector.execute_query_async("CREATE SCHEMA public")
        await app.schema_manager.apply_schema_async()
        data = "x" * payload
        for start in range(0, items, 1000):
            chunk = range(start, min(start + 1000, items))
            await item.batch_defer_async(*({"at": at, "payload": data} for at in chunk))
        start = time.perf_counter()
        # Returns when all jobs have finished.
        await app.run_worker_async(wait=False, concurrency=concurrency, listen_notify=False, install_signal_handlers=False)
        seconds = time.perf_counter() - start
        query = "SELECT count(*) AS count FROM procrastinate_jobs WHERE status = 'succeeded'"
        succeeded = (await connector.execute_query_one_async(query))["count"]
    if succeeded != items or any(count != 1 for count in runs):
        sys.exit(f"{succeeded} of {items} jobs succeeded, or some ran twice")
    print(f"{items / seconds:.1f}")


asyncio.run(main())
