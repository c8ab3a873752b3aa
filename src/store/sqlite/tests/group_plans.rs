//! Query plans of lists of groups, and of claims in a queue with paused groups: each statement makes a few seeks.

use lease_broker_model::group::{GroupOrder, Groups};
use lease_broker_model::queue::Order;

use super::super::group_list::GroupList;
use super::super::migrations;
use super::query_plans::{TABLES, open_queue, query_plan, spec};

#[test]
fn groups_are_listed_by_seeks() {
    let orders = [
        GroupOrder::Strict {
            halts: false,
            run: 1,
        },
        GroupOrder::Strict {
            halts: true,
            run: 1,
        },
        GroupOrder::Parallel {
            max_leases: None,
            bursts: false,
        },
    ];
    for (create, row) in TABLES {
        for (order, filtered) in orders
            .into_iter()
            .flat_map(|order| [(order, true), (order, false)])
        {
            let mut spec = spec(Order::By(vec![]), filtered);
            let groups = Groups {
                column: "rank".to_owned(),
                order,
                rate: None,
            };
            let halts = groups.halts();
            spec.groups = Some(groups);
            for statistics in [false, true] {
                let (connection, queue) = open_queue(create, &spec, statistics);
                migrations::migrate(&connection).expect("migrated");
                let list = GroupList::new(&connection, &queue, order, halts).expect("a list");
                for sql in [&list.first, &list.next, &list.head, &list.leases] {
                    let steps = query_plan(&connection, sql);
                    let of_table = |step: &&String| {
                        let read = step
                            .trim_start_matches("SEARCH ")
                            .trim_start_matches("SCAN ");
                        ["t ", "b ", "item "]
                            .iter()
                            .any(|name| read.starts_with(name))
                    };
                    let reads: Vec<&String> = steps.iter().filter(of_table).collect();
                    assert!(!reads.is_empty(), "{sql}: {steps:?}");
                    for step in reads {
                        let index = ["item_lease_group", "item_lease_busy", "item_lease_halt"];
                        let is_seek = step.starts_with("SEARCH")
                            && index.iter().any(|index| step.contains(index));
                        assert!(is_seek, "{sql}: {steps:?}");
                    }
                }
                let turn = queue.sql.turn.as_ref().expect("turns");
                let is_paused = &turn.groups.as_ref().expect("groups").is_paused;
                let steps = query_plan(&connection, is_paused);
                assert_eq!(
                    steps[0].replace(" t ", " item "),
                    row,
                    "{is_paused}: {steps:?}"
                );
                assert!(
                    steps.iter().any(|step| step.starts_with("SEARCH g ")),
                    "{steps:?}"
                );
            }
        }
    }
}
