// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes small ONNX files: only the necessary fields of onnx.proto, encoded as protocol buffers.

/// A node's operator, its inputs and its output.
pub(crate) type Node<'a> = (&'a str, &'a [&'a str], &'a str);

/// A named tensor with its shape.
#[derive(Clone)]
pub(crate) struct Tensor {
    pub(crate) name: &'static str,
    pub(crate) shape: Vec<u64>,
    pub(crate) numbers: Vec<f32>,
}

/// An ONNX file with the input `line`, of this shape and kind of numbers, and the output `score`.
pub(crate) fn file(
    kind: u64,
    input: &[u64],
    output: &[u64],
    nodes: &[Node<'_>],
    tensors: &[Tensor],
) -> Vec<u8> {
    let mut graph = Vec::new();
    for (operator, inputs, output) in nodes {
        let mut node = Vec::new();
        inputs.iter().for_each(|input| bytes(&mut node, 1, input.as_bytes()));
        bytes(&mut node, 2, output.as_bytes());
        bytes(&mut node, 3, format!("makes {output}").as_bytes());
        bytes(&mut node, 4, operator.as_bytes());
        bytes(&mut graph, 1, &node);
    }
    bytes(&mut graph, 2, b"test");
    for Tensor { name, shape, numbers } in tensors {
        let mut tensor = Vec::new();
        shape.iter().for_each(|size| number(&mut tensor, 1, *size));
        number(&mut tensor, 2, FLOAT);
        bytes(&mut tensor, 8, name.as_bytes());
        let raw: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        bytes(&mut tensor, 9, &raw);
        bytes(&mut graph, 5, &tensor);
    }
    bytes(&mut graph, 11, &value("line", kind, input));
    bytes(&mut graph, 12, &value("score", FLOAT, output));
    let mut opset = Vec::new();
    bytes(&mut opset, 1, b"");
    number(&mut opset, 2, 17);
    let mut model = Vec::new();
    number(&mut model, 1, 8);
    bytes(&mut model, 7, &graph);
    bytes(&mut model, 8, &opset);
    model
}

/// The kinds of numbers in ONNX.
pub(crate) const FLOAT: u64 = 1;
#[allow(dead_code, reason = "one of the tests has models that are wrong")]
pub(crate) const INT64: u64 = 7;

/// `sigmoid(line · weights + bias)`. All weights except these are 0.
pub(crate) fn logistic(length: usize, weights: &[(usize, f32)], bias: f32) -> Vec<u8> {
    let mut numbers = vec![0.0; length];
    weights.iter().for_each(|(place, weight)| numbers[*place] = *weight);
    let size = length as u64;
    let tensors = [
        Tensor { name: "weights", shape: vec![size, 1], numbers },
        Tensor { name: "bias", shape: vec![1], numbers: vec![bias] },
    ];
    let nodes: [Node<'_>; 3] = [
        ("MatMul", &["line", "weights"], "product"),
        ("Add", &["product", "bias"], "sum"),
        ("Sigmoid", &["sum"], "score"),
    ];
    file(FLOAT, &[1, size], &[1, 1], &nodes, &tensors)
}

fn value(name: &str, kind: u64, shape: &[u64]) -> Vec<u8> {
    let mut dimensions = Vec::new();
    for size in shape {
        let mut dimension = Vec::new();
        number(&mut dimension, 1, *size);
        bytes(&mut dimensions, 1, &dimension);
    }
    let (mut tensor, mut kind_of, mut value) = (Vec::new(), Vec::new(), Vec::new());
    number(&mut tensor, 1, kind);
    bytes(&mut tensor, 2, &dimensions);
    bytes(&mut kind_of, 1, &tensor);
    bytes(&mut value, 1, name.as_bytes());
    bytes(&mut value, 2, &kind_of);
    value
}

fn varint(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

fn number(to: &mut Vec<u8>, field: u64, number: u64) {
    varint(to, field << 3);
    varint(to, number);
}

fn bytes(to: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    varint(to, field << 3 | 2);
    varint(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}
