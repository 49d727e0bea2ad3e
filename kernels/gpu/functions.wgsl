// Functions of Dispatch.function: `function_NAME(x, p)`, where p.x, p.y are the parameters in the order of
// edgemem.model.tensor_ops.Function. A function without that prefix is for the others to call.

fn function_relu(x: vec4<f32>, p: vec4<f32>) -> vec4<f32> {
    return max(x, vec4<f32>());
}

fn function_clip(x: vec4<f32>, p: vec4<f32>) -> vec4<f32> {
    return clamp(x, vec4<f32>(p.x), vec4<f32>(p.y));
}
