//! The texts of a page: its paragraphs, list entries, tables and rows, each with what the comment after it says.

/// A paragraph, a list entry, a table, or a row of a table with the column `test`.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) line: usize,
    pub(super) text: String,
    pub(super) mark: Mark,
}

/// What a comment says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Mark {
    /// There is no comment.
    None,
    /// The text is a promise, which these tests show.
    Tests(Vec<String>),
    /// As [`Self::Tests`], from the last column of a table. A name can be that of a module.
    TestsOrModules(Vec<String>),
    /// The text is no promise, but of this kind.
    NoPromise(String),
}

/// Returns the texts of a page that need a comment.
pub(super) fn parse(page: &str) -> Vec<Block> {
    let mut parser = Parser {
        blocks: Vec::new(),
        of_section: Mark::None,
        after: After::Nothing,
        test_column: None,
    };
    let mut in_code = false;
    for (line, text) in (1..).zip(page.lines()) {
        let text = text.trim();
        if text.starts_with("```") {
            in_code = !in_code;
            parser.after = After::Nothing;
        } else if !in_code {
            parser.take(line, text);
        }
    }
    let mut blocks = parser.blocks;
    // The first paragraph says for whom the page is.
    if !blocks.is_empty() {
        blocks.remove(0);
    }
    blocks.retain(|block| !(block.mark == Mark::None && block.text.ends_with(':')));
    blocks
}

/// What the previous line was.
#[derive(Clone, Copy, PartialEq)]
enum After {
    Nothing,
    Heading,
    /// A line of the last block, which the next line can continue.
    Text,
    Table,
}

struct Parser {
    blocks: Vec<Block>,
    /// The comment directly below the heading of the section.
    of_section: Mark,
    after: After,
    /// Whether the present table has the column `test`.
    test_column: Option<bool>,
}

impl Parser {
    fn take(&mut self, line: usize, text: &str) {
        if let Some(mark) = comment(text) {
            match self.blocks.last_mut() {
                _ if self.after == After::Heading => self.of_section = mark,
                Some(block) => block.mark = mark,
                None => {}
            }
            self.after = After::Nothing;
        } else if text.is_empty() {
            if self.after != After::Heading {
                self.after = After::Nothing;
            }
        } else if text.starts_with('#') {
            self.of_section = Mark::None;
            self.after = After::Heading;
        } else if text.starts_with('|') {
            self.take_row(line, text);
        } else if let Some(entry) = list_entry(text) {
            self.begin(line, entry);
        } else if self.after == After::Text {
            let block = self.blocks.last_mut().expect("a block before this line");
            block.text.push(' ');
            block.text.push_str(text);
        } else {
            self.begin(line, text);
        }
    }

    fn begin(&mut self, line: usize, text: &str) {
        self.blocks.push(Block {
            line,
            text: text.to_owned(),
            mark: self.of_section.clone(),
        });
        self.after = After::Text;
    }

    /// The head of a table is a block, or each row if the last column is `test`.
    fn take_row(&mut self, line: usize, text: &str) {
        let cells: Vec<&str> = text.trim_matches('|').split('|').map(str::trim).collect();
        let last = cells.last().copied().unwrap_or_default();
        if self.after != After::Table {
            self.test_column = Some(last == "test");
            if last != "test" {
                self.begin(line, text);
            }
        } else if self.test_column == Some(true) && !last.starts_with("---") {
            self.begin(line, cells[0]);
            let names = last.split('`').skip(1).step_by(2).map(str::to_owned);
            let block = self.blocks.last_mut().expect("the block of this row");
            block.mark = Mark::TestsOrModules(names.collect());
        }
        self.after = After::Table;
    }
}

/// Returns the text of a list entry.
fn list_entry(text: &str) -> Option<&str> {
    let numbered = text.trim_start_matches(|char: char| char.is_ascii_digit());
    if numbered.len() < text.len() {
        return numbered.strip_prefix(". ");
    }
    text.strip_prefix("- ")
}

fn comment(text: &str) -> Option<Mark> {
    let text = text.strip_prefix("<!--")?.strip_suffix("-->")?.trim();
    if let Some(names) = text.strip_prefix("test:") {
        let names = names.split(',').map(str::trim);
        let names = names.filter(|name| !name.is_empty()).map(str::to_owned);
        return Some(Mark::Tests(names.collect()));
    }
    let kind = text.strip_prefix("no promise:")?;
    Some(Mark::NoPromise(kind.trim().to_owned()))
}
