# needs: python3
# packages: -
cat > gen.py <<'PY'
print('openapi: 3.1.0\ninfo:\n  title: Shop API\n  version: 4.2.0\n  description: |\n    Orders, payments and refunds. A call that failed with 5xx may be retried;\n    error: see components/schemas/Error.\nservers:\n- url: https://api.example.com/v4\npaths:')
for r in ('orders','payments','refunds','products','customers','errors','webhooks'):
    R=r[:-1].capitalize()
    for path,ops in ((f'/{r}',('get','post')),(f'/{r}/{{id}}',('get','patch','delete'))):
        print(f'  {path}:')
        for o in ops:
            print(f'    {o}:\n      operationId: {o}{R}{"ById" if "id" in path else ""}\n      tags: [{r}]\n      summary: {o.capitalize()} {r}\n      responses:\n        "200":\n          description: ok\n          content:\n            application/json:\n              schema: {{$ref: "#/components/schemas/{R}"}}\n        "404":\n          description: "error: not found"\n          content:\n            application/json:\n              schema: {{$ref: "#/components/schemas/Error"}}\n        "503":\n          description: failed, retry later')
print('components:\n  schemas:\n    Error:\n      type: object\n      required: [code, message]\n      properties:\n        code: {type: string, enum: [timeout, connection_refused, validation_failed, fatal]}\n        message: {type: string, example: "Error: payment failed"}')
for r in ('Order','Payment','Refund','Product','Customer','Webhook'): print(f'    {r}:\n      type: object\n      properties:\n        id: {{type: string, format: uuid}}\n        state: {{type: string, enum: [new, done, failed, error]}}\n        last_error: {{type: [string, "null"]}}\n        amount: {{type: integer, minimum: 0}}')
PY
python3 gen.py > openapi.yaml
echo ==OUTPUT==
cat openapi.yaml
