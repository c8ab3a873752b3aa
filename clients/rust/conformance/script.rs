//! The acts of a handler, which are the column `payload` of its item.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::time::Duration;

use lease_broker_client::{
    Context, DeadLetter, Done, HandlerError, Item, NewItem, Release, Retry, Value,
};
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value as Json, json};
use tokio::task::block_in_place;
use tokio::time::sleep;

use crate::journal::print;
use crate::millis;

pub(crate) struct Script(Json);

impl Script {
    pub(crate) fn parse(item: &Item) -> Result<Self, HandlerError> {
        Ok(Self(serde_json::from_str(item.text("payload")?)?))
    }

    pub(crate) async fn run(
        &self,
        item: &Item,
        context: &Context,
        effects: Option<&str>,
    ) -> Result<Done, HandlerError> {
        if let Some(checkpoint) = self.text("checkpoint") {
            item.save_checkpoint(checkpoint.as_bytes());
        }
        let time = self.time("sleep_ms");
        if self.0["ignore_cancel"] == json!(true) {
            // The library drops a future that waits. Only code that blocks its thread can ignore a cancellation.
            block_in_place(|| std::thread::sleep(time));
        } else {
            context.unless_cancelled(sleep(time)).await?;
        }
        // Blocks the thread of the runtime, as a mistake would.
        std::thread::sleep(self.time("block_ms") + self.time("hold_ms"));
        if let (Some(effect), Some(file)) = (self.text("effect"), effects) {
            append_effect(effect, item, file)?;
        }
        self.end()
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0[name].as_str().filter(|text| !text.is_empty())
    }

    fn time(&self, name: &str) -> Duration {
        millis(self.0[name].as_f64().unwrap_or(0.0))
    }

    fn end(&self) -> Result<Done, HandlerError> {
        let after = Some(self.time("after_ms")).filter(|after| !after.is_zero());
        match self.text("then").unwrap_or("complete") {
            "complete" => Ok(self.done()),
            "raise" => Err(std::io::Error::other("raised").into()),
            "retry" => {
                let retry = Retry::new("retry");
                Err(after
                    .map_or(retry.clone(), |after| retry.after(after))
                    .into())
            }
            "dead" => Err(DeadLetter::new("dead").into()),
            "release" => {
                let release = Release::new();
                Err(after
                    .map_or(release.clone(), |after| release.after(after))
                    .into())
            }
            "exit" => std::process::exit(3),
            other => Err(HandlerError::new(format!("unknown ending {other}"))),
        }
    }

    fn done(&self) -> Done {
        let mut done = Done::new();
        for (name, value) in self.0["columns"].as_object().into_iter().flatten() {
            done = done.column(name, value_of(value));
        }
        for follow_up in self.0["follow_ups"].as_array().into_iter().flatten() {
            let mut item = NewItem::new();
            for (name, value) in follow_up["columns"].as_object().into_iter().flatten() {
                item = item.column(name, value_of(value));
            }
            done = done.follow_up(follow_up["queue"].as_str().unwrap_or_default(), item);
        }
        done
    }
}

fn value_of(json: &Json) -> Value {
    match json {
        Json::Bool(bool) => (*bool).into(),
        Json::Number(number) => match number.as_i64() {
            Some(int) => int.into(),
            None => number.as_f64().into(),
        },
        Json::String(text) => text.as_str().into(),
        _ => Value::Null,
    }
}

/// Appends a line to the file of effects, unless a later lease has done so before.
fn append_effect(name: &str, item: &Item, path: &str) -> Result<(), HandlerError> {
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .open(path)?;
    flock(&file, FlockOperation::LockExclusive)?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let later = text.lines().any(|line| {
        let mut fields = line.split(' ');
        let is_same = fields.next() == Some(name) && fields.next() == Some(item.key());
        let fence = fields.next().and_then(|fence| fence.parse::<i64>().ok());
        is_same && fence > Some(item.fencing_token())
    });
    if later {
        print(json!({
            "ev": "effect_refused",
            "key": item.key(),
            "attempt": item.attempt(),
            "fence": item.fencing_token(),
        }));
        return Ok(());
    }
    writeln!(file, "{name} {} {}", item.key(), item.fencing_token())?;
    Ok(())
}
