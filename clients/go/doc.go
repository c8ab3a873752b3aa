// Package leasebroker has workers and producers for lease-broker, which leases rows of SQL tables to workers.
//
// A [Worker] claims rows of one queue, calls a handler for each of them, keeps their leases alive, and reports how the
// handlers ended. A [Client] adds rows to queues.
package leasebroker
