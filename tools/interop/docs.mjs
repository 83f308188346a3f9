// docs.mjs URL prints what a phone shows of a documentation page: the width of the page, and for the
// first link to a schema whether its target is visible before and after a click.
import puppeteer from 'puppeteer-core'

const browser = await puppeteer.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] })
try {
  const page = await browser.newPage()
  await page.setViewport({ width: 390, height: 844, deviceScaleFactor: 2, isMobile: true, hasTouch: true })
  await page.goto(process.argv[2])
  const width = () => page.evaluate(() => document.documentElement.scrollWidth)
  const closed = await width()
  // A link in a response of an operation, whose details a reader has opened.
  const link = await page.evaluate(() => {
    const a = document.querySelector('details a[href^="#schema-"]')
    for (let e = a; e; e = e.parentElement) if (e.tagName === 'DETAILS') e.open = true
    return a.getAttribute('href')
  })
  const shown = () => page.$eval(link, (e) => e.checkVisibility())
  const before = await shown()
  await page.$eval(`a[href="${link}"]`, (a) => a.click())
  await page.waitForFunction((id) => document.querySelector(id).checkVisibility(), {}, link)
  const after = await shown()
  const opened = await page.evaluate(() => {
    for (const d of document.querySelectorAll('details')) d.open = true
    return document.documentElement.scrollWidth
  })
  console.log(JSON.stringify({ closed, opened, before, after }))
} finally {
  await browser.close()
}
