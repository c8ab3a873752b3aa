/**
 * The messages and the service of the API `leasebroker.v1`, generated from `lease_broker.proto`. They are public, so that
 * a program that needs them does not have to generate them again.
 */
export * from "./gen/leasebroker/v1/lease_broker_pb.js";
