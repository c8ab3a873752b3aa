/**
 * Workers and producers for lease-broker, which leases rows of SQL tables to workers.
 *
 * <p>A {@link com.example.leasebroker.Worker} claims rows of one queue, calls a handler for each of them, keeps their leases
 * alive, and reports how the handlers ended. A {@link com.example.leasebroker.Client} adds rows to queues.
 */
package com.example.leasebroker;
