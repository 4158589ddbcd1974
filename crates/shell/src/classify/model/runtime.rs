// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a model. The model can only compute: it has no loops, no random numbers and no other files.

use super::input::{Features, LENGTH};
use rten::{
    DataType, Dimension, Model, ModelOptions, NodeId, RunOptions, ThreadPool, Value, ValueType, op_registry,
};
use std::sync::Arc;

/// A model with the expected shapes of input and output.
pub(super) struct Runtime {
    model: Model,
    input: NodeId,
    output: NodeId,
    /// A pool of one thread: the calling thread waits for it, and the other processors stay free for other programs.
    pool: Arc<ThreadPool>,
}

impl Runtime {
    /// Parses a model, and runs it once as a check.
    pub(super) fn load(bytes: Vec<u8>) -> Result<Self, String> {
        // The operators that classifiers of text use.
        let operators = op_registry!(
            Add,
            AveragePool,
            BatchNormalization,
            Cast,
            Clip,
            Concat,
            Conv,
            Div,
            Erf,
            Exp,
            Expand,
            Flatten,
            Gather,
            Gelu,
            Gemm,
            GlobalAveragePool,
            HardSigmoid,
            Identity,
            LayerNormalization,
            LeakyRelu,
            Log,
            LogSoftmax,
            MatMul,
            Max,
            MaxPool,
            Min,
            Mul,
            Neg,
            Pow,
            ReduceMax,
            ReduceMean,
            ReduceSum,
            Relu,
            Reshape,
            Sigmoid,
            Slice,
            Softmax,
            Split,
            Sqrt,
            Squeeze,
            Sub,
            Tanh,
            Transpose,
            Unsqueeze,
            Where
        );
        let model = ModelOptions::with_ops(operators).load(bytes).map_err(|error| error.to_string())?;
        let (&[input], &[output, ..]) = (model.input_ids(), model.output_ids()) else {
            return Err(format!("it has {} inputs and must have one", model.input_ids().len()));
        };
        let info = model.node_info(input).ok_or("its input isn't described")?;
        if info.dtype().is_some_and(|kind| kind != ValueType::Tensor(DataType::Float)) {
            return Err("its input isn't made of floats".to_owned());
        }
        let fits = |shape: &[Dimension]| match shape {
            [one, length] => [(one, 1), (length, LENGTH)].iter().all(|(dimension, wanted)| match dimension {
                Dimension::Fixed(size) => size == wanted,
                Dimension::Symbolic(_) => true,
            }),
            _ => false,
        };
        if info.shape().is_some_and(|shape| !fits(&shape)) {
            return Err(format!("its input's shape isn't [1, {LENGTH}]"));
        }
        let pool = Arc::new(ThreadPool::with_num_threads(1));
        let runtime = Self { model, input, output, pool };
        runtime.run(&vec![0.0; LENGTH])?;
        Ok(runtime)
    }

    /// The model's output for this input.
    pub(super) fn run(&self, features: &Features) -> Result<f32, String> {
        let input = Value::from_shape(&[1, LENGTH], features.clone()).map_err(|error| error.to_string())?;
        let options = RunOptions::default().with_thread_pool(Some(Arc::clone(&self.pool)));
        let outputs = self
            .model
            .run(vec![(self.input, input.into())], &[self.output], Some(options))
            .map_err(|error| error.to_string())?;
        let wrong = "its first output isn't one float";
        let output = outputs.first().and_then(Value::as_tensor_view::<f32>).ok_or(wrong)?;
        output.item().copied().ok_or_else(|| wrong.to_owned())
    }
}
