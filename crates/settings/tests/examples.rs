// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes of files as people write them: what is written, and that it is taken back.
#![expect(clippy::unwrap_used, reason = "a test may die of what it has made itself")]

use palisade_settings::draft::Undone;
use palisade_settings::{Draft, EditError, Format};
use serde_json::json;

/// Makes a change, compares the result, and takes the change back.
#[track_caller]
fn changed(text: &str, format: Format, edit: impl FnOnce(&mut Draft), expected: &str) {
    let mut draft = Draft::new(text.as_bytes(), format).unwrap();
    edit(&mut draft);
    assert_eq!(draft.content(), expected);
    let changes = draft.clone().into_changes();
    for change in changes.iter().rev() {
        assert_eq!(draft.undo(change).unwrap(), Undone::Gone);
    }
    assert_eq!(draft.content(), text);
}

fn prefix(draft: &mut Draft) {
    draft.set(&["env", "PREFIX"], &json!("/x")).unwrap();
}

#[test]
fn json_keeps_its_style() {
    for (text, expected) in [
        ("", "{\n  \"env\": {\n    \"PREFIX\": \"/x\"\n  }\n}\n"),
        ("// mine", "// mine\n{\n  \"env\": {\n    \"PREFIX\": \"/x\"\n  }\n}\n"),
        ("{}", "{\n  \"env\": {\n    \"PREFIX\": \"/x\"\n  }\n}"),
        ("{}\n", "{\n  \"env\": {\n    \"PREFIX\": \"/x\"\n  }\n}\n"),
        (
            "\u{feff}{\r\n\t\"a\": 1,\r\n}",
            "\u{feff}{\r\n\t\"env\": {\r\n\t\t\"PREFIX\": \"/x\"\r\n\t},\r\n\t\"a\": 1,\r\n}",
        ),
        ("{\"a\":1}", "{\"env\": { \"PREFIX\": \"/x\" }, \"a\":1}"),
        ("{\"env\":{}}", "{\"env\":{\"PREFIX\": \"/x\"}}"),
        ("{\n    \"env\": {}\n}", "{\n    \"env\": {\n        \"PREFIX\": \"/x\"\n    }\n}"),
        ("{\"env\": {\"A\": \"1\"}}", "{\"env\": {\"PREFIX\": \"/x\", \"A\": \"1\"}}"),
        ("{\"env\": {\"PREFIX\": null}}", "{\"env\": {\"PREFIX\": \"/x\"}}"),
        ("{ // why\n}", "{\n  \"env\": {\n    \"PREFIX\": \"/x\"\n  } // why\n}"),
        ("{ /* none */ }", "{ \"env\": { \"PREFIX\": \"/x\" } /* none */ }"),
    ] {
        changed(text, Format::Json, prefix, expected);
    }
    // What is as it should be isn't changed, and not taken back.
    let text = "{\"env\": {\"PREFIX\": \"/x\"}}";
    let mut draft = Draft::new(text.as_bytes(), Format::Json).unwrap();
    prefix(&mut draft);
    assert_eq!((draft.content().as_str(), draft.into_changes().len()), (text, 0));
}

#[test]
fn lists_get_elements_in_front() {
    let edit = |draft: &mut Draft| draft.prepend(&["args"], &[json!("run"), json!("--")]).unwrap();
    for (text, expected) in [
        ("{\"args\": [\"a\"]}", "{\"args\": [\"run\", \"--\", \"a\"]}"),
        ("{\"args\": []}", "{\"args\": [\"run\", \"--\"]}"),
        ("{\"args\": [\n  \"a\" // b\n]}", "{\"args\": [\n  \"run\",\n  \"--\",\n  \"a\" // b\n]}"),
        ("{\"b\": 1}", "{\"args\": [\"run\", \"--\"], \"b\": 1}"),
    ] {
        changed(text, Format::Json, edit, expected);
    }
    for (text, expected) in [
        ("args = [\"a\"] # b\n", "args = [\"run\", \"--\", \"a\"] # b\n"),
        ("args = []\n", "args = [\"run\", \"--\"]\n"),
        ("args = [\n  'a',\n]", "args = [\n  \"run\",\n  \"--\",\n  'a',\n]"),
        ("b = 1\n", "args = [\"run\", \"--\"]\nb = 1\n"),
    ] {
        changed(text, Format::Toml, edit, expected);
    }
}

#[test]
fn toml_has_tables_dotted_names_and_tables_on_one_line() {
    let edit = |draft: &mut Draft| {
        draft.set(&["s", "x", "command"], &json!("palisade")).unwrap();
        draft.set(&["s", "x", "args"], &json!(["run"])).unwrap();
    };
    for (text, expected) in [
        ("[s.x]\ncommand = 'a'\n[t]\n", "[s.x]\nargs = [\"run\"]\ncommand = \"palisade\"\n[t]\n"),
        ("s.x.command = \"a\"", "s.x.args = [\"run\"]\ns.x.command = \"palisade\""),
        ("[s]\nx = { command = \"a\" }\n", "[s]\nx = { args = [\"run\"], command = \"palisade\" }\n"),
        (
            "[s.x.env]\nA = \"1\"\n\n[s.x]\ncommand = \"a\"\n",
            "[s.x.env]\nA = \"1\"\n\n[s.x]\nargs = [\"run\"]\ncommand = \"palisade\"\n",
        ),
        ("[s.x]\r\n\tcommand = \"a\"\r\n", "[s.x]\r\n\targs = [\"run\"]\r\n\tcommand = \"palisade\"\r\n"),
    ] {
        changed(text, Format::Toml, edit, expected);
    }
    let mut draft = Draft::new(b"a = 1\n", Format::Toml).unwrap();
    assert!(matches!(draft.set(&["s", "x"], &json!("y")), Ok(()) | Err(EditError::NoTable { .. })));
}

#[test]
fn edits_of_others_stay() {
    let mut draft = Draft::new(b"{\n  \"a\": 1\n}\n", Format::Json).unwrap();
    prefix(&mut draft);
    let content = draft.content();
    let change = draft.into_changes().pop().unwrap();
    for (edited, expected) in [
        (
            content.replace("\"a\": 1", "\"a\": 2, // two\n  \"b\": []"),
            "{\n  \"a\": 2, // two\n  \"b\": []\n}\n",
        ),
        (
            content.replace("\"/x\"", "\"/x\",\n    \"B\": \"2\""),
            "{\n  \"env\": {\n    \"B\": \"2\"\n  },\n  \"a\": 1\n}\n",
        ),
        (content.replace(",\n  \"a\": 1", ""), "{}\n"),
        ("{\"a\":1,\"env\":{\"PREFIX\":\"/x\"}}".to_owned(), "{\"a\":1}"),
        ("{\"a\":1,\"env\":{\"B\":\"2\",\"PREFIX\":\"/x\"}}".to_owned(), "{\"a\":1,\"env\":{\"B\":\"2\"}}"),
        (
            "{\n  \"a\": 1,\n  // ours\n  \"env\": {\"PREFIX\": \"/x\"},\n}".to_owned(),
            "{\n  \"a\": 1,\n  // ours\n}",
        ),
    ] {
        let mut draft = Draft::new(edited.as_bytes(), Format::Json).unwrap();
        assert_eq!(draft.undo(&change).unwrap(), Undone::Gone, "{edited}");
        assert_eq!(draft.content(), expected);
    }
    for (edited, undone) in
        [(content.replace("/x", "/y"), Undone::Changed), ("{}".to_owned(), Undone::Absent)]
    {
        let mut draft = Draft::new(edited.as_bytes(), Format::Json).unwrap();
        assert_eq!(draft.undo(&change).unwrap(), undone);
        assert_eq!(draft.content(), edited);
    }
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (text, format, place) in [
        (&b"{\n  \"a\": }"[..], Format::Json, (2, 8)),
        (b"{\"a\": 1 \"b\": 2}", Format::Json, (1, 8)),
        (b"{a: 1}", Format::Json, (1, 2)),
        (b"{'a': 1}", Format::Json, (1, 2)),
        (b"{\n\xff}", Format::Json, (2, 1)),
        (b"a = 1\nb = = 2\n", Format::Toml, (2, 5)),
    ] {
        let error = Draft::new(text, format).unwrap_err();
        assert_eq!((error.line, error.column), place, "{error}");
    }
    let deep = "[".repeat(100_000);
    assert!(Draft::new(deep.as_bytes(), Format::Json).is_err());
    assert!(Draft::new(format!("a = {deep}").as_bytes(), Format::Toml).is_err());
    let mut draft = Draft::new(b"{\n\"env\": 1}", Format::Json).unwrap();
    let error = draft.set(&["env", "A"], &json!("b")).unwrap_err();
    assert_eq!(error.to_string(), "line 2, column 8: \"env\" isn't an object");
    let error = draft.prepend(&["env"], &[json!("b")]).unwrap_err();
    assert_eq!(error.to_string(), "line 2, column 8: \"env\" isn't a list");
    let mut draft = Draft::new(b"[1]", Format::Json).unwrap();
    assert!(draft.set(&["env", "A"], &json!("b")).is_err());
}
