//! The .proto against the table of the protocol's messages, fields, enums and requests: nothing missing, nothing invented.
#![expect(clippy::unwrap_used, reason = "a broken table must fail the test")]

use containerd_nri::messages;
use protobuf::Message;
use protobuf::descriptor::field_descriptor_proto::{Label, Type};
use protobuf::descriptor::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto};
use std::collections::BTreeSet;

const PACKAGE: &str = ".nri.pkg.api.v1alpha1.";

fn scalar(field: &FieldDescriptorProto) -> String {
    let word = match field.type_() {
        Type::TYPE_STRING => "string",
        Type::TYPE_BOOL => "bool",
        Type::TYPE_INT32 => "int32",
        Type::TYPE_INT64 => "int64",
        Type::TYPE_UINT32 => "uint32",
        Type::TYPE_UINT64 => "uint64",
        _ => return field.type_name().strip_prefix(PACKAGE).unwrap().to_owned(),
    };
    word.to_owned()
}

fn kind(message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    let entry = |nested: &&DescriptorProto| {
        nested.options.map_entry() && field.type_name().ends_with(&format!(".{}.{}", message.name(), nested.name()))
    };
    if let Some(entry) = message.nested_type.iter().find(entry) {
        return format!("map<{},{}>", scalar(&entry.field[0]), scalar(&entry.field[1]));
    }
    let one = scalar(field);
    if field.label() == Label::LABEL_REPEATED { format!("repeated {one}") } else { one }
}

fn enum_rows(owner: &str, of: &EnumDescriptorProto, rows: &mut BTreeSet<String>) {
    for value in &of.value {
        rows.insert(format!("enum\t{owner}{}\t{}\t{}\t", of.name(), value.number(), value.name()));
    }
}

#[test]
fn the_proto_is_the_table() {
    let file = messages::file_descriptor().proto();
    let mut rows = BTreeSet::new();
    for message in &file.message_type {
        if message.field.is_empty() {
            rows.insert(format!("message\t{}\t-\t-\t(no fields)", message.name()));
        }
        for field in &message.field {
            let kind = kind(message, field);
            rows.insert(format!("message\t{}\t{}\t{}\t{kind}", message.name(), field.number(), field.name()));
        }
        for nested in &message.enum_type {
            enum_rows(&format!("{}.", message.name()), nested, &mut rows);
        }
    }
    for of in &file.enum_type {
        enum_rows("", of, &mut rows);
    }
    for service in &file.service {
        for method in &service.method {
            let name = |full: &str| full.strip_prefix(PACKAGE).unwrap().to_owned();
            let (input, output) = (name(method.input_type()), name(method.output_type()));
            let owner = format!("{}.{}", file.package(), service.name());
            rows.insert(format!("rpc\t{owner}\t-\t{}\t{input} -> {output}", method.name()));
        }
    }
    let table: BTreeSet<String> = include_str!("nri-wire.tsv").lines().skip(1).map(str::to_owned).collect();
    assert!(table.len() > 350, "only {} rows", table.len());
    assert_eq!(rows.difference(&table).collect::<Vec<_>>(), Vec::<&String>::new(), "not in the table");
    assert_eq!(table.difference(&rows).collect::<Vec<_>>(), Vec::<&String>::new(), "not in the proto");
}

#[test]
fn fields_of_a_newer_runtime_are_ignored_and_kept() {
    // Field 200 with the text "new", then the id "c1".
    let bytes = [&[0xc2, 0x0c, 3][..], b"new", &[0x0a, 2], b"c1"].concat();
    let container = messages::Container::parse_from_bytes(&bytes).unwrap();
    assert_eq!(container.id, "c1");
    assert_eq!(container.write_to_bytes().unwrap().len(), bytes.len());
}
