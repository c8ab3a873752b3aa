//! Texts and bytes in columns of every type: a claim returns them unchanged, whether a broker or a program inserted them.

use lease_broker_value::Value;

use crate::harness::errors::rejected;
use crate::harness::fixture::{Fixture, new_item, queue, text};
use crate::harness::mssql::MssqlHarness;
use crate::harness::program::{Program, start, start_on_sql_server};
use crate::sql_server::statements::statement;
use crate::sql_server::types::check_samples;
use crate::support::skipped::skipped;

#[tokio::test]
async fn text_is_unchanged_in_every_column_type() {
    let Some((harness, program)) = start().await else {
        return;
    };
    let samples = [
        // The server pads the value.
        ("char(5)", "'abc'", text("abc  ")),
        ("nchar(5)", "N'żół'", text("żół  ")),
        ("varchar(20)", "'Grüße'", text("Grüße")),
        ("varchar(20)", "''", text("")),
        ("varchar(max)", "'it''s'", text("it's")),
        ("nvarchar(20)", "N'世界 🦀'", text("世界 🦀")),
        (
            "uniqueidentifier",
            "'6f9619ff-8b86-d011-b42d-00c04fc964ff'",
            text("6f9619ff-8b86-d011-b42d-00c04fc964ff"),
        ),
        (
            "xml",
            "N'<a><b c=''1''>ż</b></a>'",
            text("<a><b c='1'>ż</b></a>"),
        ),
    ];
    // SQL Server returns the attributes of xml in another form.
    let samples = if program.babelfish {
        &samples[..]
    } else {
        &samples[..7]
    };
    check_samples(harness, &program, samples).await;
}

/// Babelfish stores these types in UTF-8. On SQL Server a column of code page 1252 lacks the characters.
#[tokio::test]
async fn babelfish_returns_every_character_of_varchar() {
    let Some((harness, program)) = start().await else {
        return;
    };
    if !program.babelfish {
        skipped("the server is not Babelfish");
        return;
    }
    let samples = [
        ("varchar(10)", "N'Ωł日'", text("Ωł日")),
        ("varchar(6)", "N'😀😀😀'", text("😀😀😀")),
        ("varchar(8000)", "N'żółć'", text("żółć")),
        ("varchar(max)", "N'世界 🦀'", text("世界 🦀")),
    ];
    check_samples(harness, &program, &samples).await;
}

#[tokio::test]
async fn xml_is_returned_as_the_server_writes_it() {
    let Some((harness, program)) = start().await else {
        return;
    };
    check_samples(
        harness,
        &program,
        &[("xml", "N'<a><b>ż</b></a>'", text("<a><b>ż</b></a>"))],
    )
    .await;
}

#[tokio::test]
async fn bytes_and_quoted_text_are_unchanged() {
    let Some((harness, program)) = start().await else {
        return;
    };
    let samples = [
        // The server pads the value.
        ("binary(4)", "0x01ff", Value::Bytes(vec![1, 255, 0, 0])),
        ("varbinary(8)", "0x", Value::Bytes(vec![])),
        ("varbinary(8)", "0x00ff00", Value::Bytes(vec![0, 255, 0])),
        (
            "varbinary(max)",
            "0xdeadbeef",
            Value::Bytes(vec![0xde, 0xad, 0xbe, 0xef]),
        ),
        (
            "nvarchar(50)",
            "N'{\"k\": [1, \"\\\\\"]}'",
            text(r#"{"k": [1, "\\"]}"#),
        ),
        ("varchar(max)", "'\"\\\"'", text(r#""\""#)),
        (
            "nvarchar(50)",
            "N'a' + NCHAR(9) + N'b' + NCHAR(13) + NCHAR(10)",
            text("a\tb\r\n"),
        ),
    ];
    check_samples(harness, &program, &samples).await;
}

#[tokio::test]
async fn character_outside_the_code_page_is_refused() {
    let lacks = "character sets: it keeps a character that the column's set lacks";
    let Some((harness, program)) = start_on_sql_server(lacks).await else {
        return;
    };
    program
        .run("CREATE TABLE item (id int IDENTITY(1, 1) PRIMARY KEY, name varchar(20))")
        .await;
    let fixture = Fixture::adopt(harness, vec![queue("item")]).await;
    let added = fixture
        .try_enqueue(vec![new_item(&[("name", text("Ωmega"))])])
        .await;
    let rejection = rejected(added);
    assert_eq!(rejection.column.as_deref(), Some("name"));
    fixture.enqueue(new_item(&[("name", text("naïve"))])).await;
    assert_eq!(fixture.one().await.columns[1], text("naïve"));
}

/// Creates a queue whose items have a column `body` of this type. Returns `None` without a server.
async fn with_body(declared: &str) -> Option<(Fixture<MssqlHarness>, Program)> {
    let (harness, program) = start().await?;
    let table = format!("CREATE TABLE item (id int IDENTITY(1, 1) PRIMARY KEY, body {declared})");
    program.run(&table).await;
    Some((Fixture::adopt(harness, vec![queue("item")]).await, program))
}

#[tokio::test]
async fn megabyte_of_enqueued_text_is_unchanged() {
    let Some((fixture, program)) = with_body("nvarchar(max)").await else {
        return;
    };
    let body = text(&"aż🦀".repeat(1_000_000 / 7));
    fixture.enqueue(new_item(&[("body", body.clone())])).await;
    let item = fixture.one().await;
    assert!(item.columns[1] == body, "the text has changed");
    // On Babelfish DATALENGTH does not count the bytes of UTF-16.
    if !program.babelfish {
        let bytes = program.number("SELECT DATALENGTH(body) FROM item").await;
        assert_eq!(bytes, 1_000_000 / 7 * 8);
    }
}

#[tokio::test]
async fn megabyte_of_inserted_text_is_unchanged() {
    let Some((fixture, program)) = with_body("nvarchar(max)").await else {
        return;
    };
    let fill = "INSERT item (body) VALUES (REPLICATE(CONVERT(nvarchar(max), N'aż世'), 333333))";
    program.run(fill).await;
    let item = fixture.one().await;
    assert!(
        item.columns[1] == text(&"aż世".repeat(333_333)),
        "the text has changed"
    );
}

#[tokio::test]
async fn megabyte_of_inserted_bytes_is_unchanged() {
    let Some((fixture, program)) = with_body("varbinary(max)").await else {
        return;
    };
    let fill = "INSERT item (body) VALUES (CONVERT(varbinary(max), REPLICATE(CONVERT(varchar(max), 'abcd'), 250000)))";
    program.run(fill).await;
    let item = fixture.one().await;
    assert!(
        item.columns[1] == Value::Bytes(b"abcd".repeat(250_000)),
        "the bytes have changed"
    );
}

#[tokio::test]
async fn megabyte_of_enqueued_bytes_is_unchanged() {
    let Some((fixture, _)) = with_body("varbinary(max)").await else {
        return;
    };
    let body = Value::Bytes((0..=255).cycle().take(1_000_000).collect());
    fixture.enqueue(new_item(&[("body", body.clone())])).await;
    assert!(
        fixture.one().await.columns[1] == body,
        "the bytes have changed"
    );
}

/// A character can have two UTF-16 units.
#[tokio::test]
async fn babelfish_counts_the_characters_of_varchar() {
    let Some((fixture, program)) = with_body("varchar(3)").await else {
        return;
    };
    if !program.babelfish {
        skipped("the server is not Babelfish");
        return;
    }
    program.run("INSERT item (body) VALUES (N'😀😀😀')").await;
    assert_eq!(fixture.one().await.columns[1], text("😀😀😀"));
}

#[tokio::test]
async fn half_a_surrogate_pair_is_claimed_as_a_replacement() {
    let Some((harness, program)) = start_on_sql_server("half surrogate pairs").await else {
        return;
    };
    program
        .run("CREATE TABLE item (id int NOT NULL PRIMARY KEY, payload nvarchar(50))")
        .await;
    let fixture = Fixture::adopt(harness, vec![queue("item")]).await;
    program.run(&statement("half_a_surrogate_pair")).await;
    let item = fixture.one().await;
    assert_eq!(item.columns[1], text("a\u{fffd}b"));
}
