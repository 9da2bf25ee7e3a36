"""A name of the attacker that leads to the server, in the browser of one who is logged in."""

from web import addresses, hostile
from web.finding import same
from web.forms import ALONE
from web.registry import ATTACKS

OWN = addresses.conversation(hostile.OWN)


@ATTACKS.check("rebinding: a name that leads here is refused, with and without the token", ALONE, on="hostile")
async def refused(visit):
    server = visit.server
    visit.statuses.update({401, 403})
    for name in ("rebound.test", "127.0.0.1.rebound.test", "localhost.rebound.test"):
        for path in ("/", f"/?token={server.token}", OWN, "/static/page.js"):
            answer = await visit.page.goto(f"http://{name}:{server.port}{path}")
            same(f"{name}{path[:8]}", answer.status, 403)
            same("what it names", hostile.OWN in await answer.text(), False)
        cookies = [one for one in await visit.context.cookies() if name in one["domain"]]
        same("cookies of the name", cookies, [])
        found = await visit.page.evaluate(
            """path => fetch(path, {credentials: 'include'}).then(one => one.status)""", OWN
        )
        same("a request of its script", found, 403)
    # The browser complains of what it is refused.
    visit.complaints.clear()


@ATTACKS.check("rebinding: a script that was loaded under the name before reads nothing", ALONE, on="hostile")
async def loaded_before(visit):
    await visit.page.goto(visit.server.link)
    page = await visit.context.new_page()
    own = f"http://rebound.test:{visit.server.port}/"
    await page.route("**/*", lambda route: route.fulfill(content_type="text/html", body="<p>mine"), times=1)
    await page.goto(own)
    statuses = await page.evaluate("""paths => Promise.all(paths.map(path => fetch(path, {credentials: 'include'})
        .then(one => one.status).catch(() => 'nothing')))""", ["/", OWN, "/saved"])
    same("what it reads", [one for one in statuses if one not in (403, "nothing")], [])
    visit.complaints.clear()
